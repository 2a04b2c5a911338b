"""What a model is: trees as flat arrays, its columns and cells, the score rule, and the forms engines work on."""
