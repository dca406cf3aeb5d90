"""What would stay if we dispatched pizzas."""
