"""What matching does, a file for each kind of use."""
