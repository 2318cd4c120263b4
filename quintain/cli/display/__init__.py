"""What people see while something runs."""
