"""What a trained model holds inside: probes of what its states know, and how its states move."""
