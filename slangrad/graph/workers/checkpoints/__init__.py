"""The state of training in a folder, for any number of workers."""
