"""A vision-language model of 1.87 M parameters that reads small documents."""
