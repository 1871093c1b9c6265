"""IR to IR: clean-up of whole functions. Each pass stands alone; pipeline.py knows their order."""
