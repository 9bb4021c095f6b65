"""The mathematics: functions from tensors to tensors, with the equation numbers of docs/theory.md."""
