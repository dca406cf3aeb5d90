"""Shared by the features of scheduling: ids, request fields, query parameters, queues, row locks."""
