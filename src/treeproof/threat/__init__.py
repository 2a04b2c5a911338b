"""Who may change the input: attackers, the arrays they become on a model, prices and neighbourhoods."""
