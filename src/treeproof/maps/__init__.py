"""The stability map: fine grid, partition, queries and file."""
