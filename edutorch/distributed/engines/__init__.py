"""What moves the data: MPI and NCCL."""
