"""Approaches to distributed training, measured side by side: models × batch sizes × ranks × approaches."""
