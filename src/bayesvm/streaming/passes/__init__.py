"""What is asked of the chunks of rows, one pass a file."""
