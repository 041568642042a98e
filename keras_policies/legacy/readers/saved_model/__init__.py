"""SavedModel folders: the object graph and what hangs on it."""
