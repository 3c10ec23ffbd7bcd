"""What `runnel demo` does: it disturbs seven brokers at work (disturbances.py), then plans fewer of them (plan.py)."""
