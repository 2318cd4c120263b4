"""What stands between the network and an app that answers HTTP: limits, and checks of requests."""
