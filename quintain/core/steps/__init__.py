"""What one step of a task is checked and measured by."""
