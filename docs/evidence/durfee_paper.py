"""What Durfee, Gupta and Basu print, of the data sets that are here as well."""

from __future__ import annotations

# The paper's Tables 1 and 2 and, of the medium and large networks, Table 3: DNN and HC.
# fmt: off
PAPER = {
    "census": {
        ("S", "top 3"): (.8976, .9021), ("S", "top 50 %"): (.8892, .9004),
        ("M", "top 3"): (.8978, .9027), ("M", "top 50 %"): (.8858, .9009),
        ("L", "top 3"): (.9007, .9027), ("L", "top 50 %"): (.8800, .9010),
        ("S", "regularised"): (.8976, .9021), ("S", "not regularised"): (.8773, .8985),
        ("M", "regularised"): (.8978, .9027), ("M", "not regularised"): (.8644, .8994),
        ("L", "regularised"): (.9007, .9027), ("L", "not regularised"): (.8437, .8980),
    },
    "bank": {
        ("S", "top 3"): (.7758, .7816), ("S", "top 50 %"): (.7736, .7810),
        ("M", "top 3"): (.7712, .7800), ("M", "top 50 %"): (.7690, .7793),
        ("L", "top 3"): (.7716, .7814), ("L", "top 50 %"): (.7663, .7779),
        ("S", "regularised"): (.7758, .7816), ("S", "not regularised"): (.7735, .7804),
        ("M", "regularised"): (.7712, .7800), ("M", "not regularised"): (.7676, .7770),
        ("L", "regularised"): (.7707, .7809), ("L", "not regularised"): (.7642, .7770),
    },
    "higgs": {
        ("S", "top 3"): (.7801, .7816), ("S", "top 50 %"): (.7650, .7692),
        ("M", "top 3"): (.7773, .7799), ("M", "top 50 %"): (.7617, .7680),
        ("L", "top 3"): (.7747, .7775), ("L", "top 50 %"): (.7596, .7666),
        ("S", "regularised"): (.7801, .7816), ("S", "not regularised"): (.7498, .7588),
        ("M", "regularised"): (.7773, .7799), ("M", "not regularised"): (.7477, .7586),
        ("L", "regularised"): (.7747, .7775), ("L", "not regularised"): (.7487, .7595),
    },
    "criteo_tau3": {},
}
# fmt: on
