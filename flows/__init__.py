"""The pipeline as a whole: its params, its order, its command line and its Prefect flow."""
