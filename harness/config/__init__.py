"""Settings files: read, flatten, edit with comments and order kept, compare; and what their keys mean."""
