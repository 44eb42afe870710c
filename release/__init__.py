"""What a release needs: its bill of materials, and recipes."""
