"""What the features of scheduling share: ids, request fields, query parameters, turns."""
