"""Commands that only developers of Tenon run, from the top of a checkout: no wheel and no image has them."""
