"""Decision boundaries over score and uncertainty.

(Arora, Merugu, Saladi, Rastogi, Leveraging uncertainty estimates to improve classifier performance.)
"""
