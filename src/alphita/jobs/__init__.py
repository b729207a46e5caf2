"""From a file to a file: questions asked once, jobs that resume, what people decided before."""
