"""SavedModel folders: the object graph, its functions and tables."""
