"""Code in Lambda layers: read and followed, never run."""
