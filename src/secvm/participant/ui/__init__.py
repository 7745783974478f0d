"""The person's page: what their device holds, sends and agrees to, in their own browser, on their own machine only."""
