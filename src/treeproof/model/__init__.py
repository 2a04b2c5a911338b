"""What a model is: trees as flat arrays, columns and cells, the score rule, and the forms that engines work on."""
