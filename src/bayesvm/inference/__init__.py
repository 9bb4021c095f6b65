"""Ways of fitting the variational posterior."""
