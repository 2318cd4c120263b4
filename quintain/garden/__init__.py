"""Names that only programs of the Model Garden use; imported by nothing else."""
