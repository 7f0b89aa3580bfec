from lmcells.expansion.expander import Expander as Expander

__version__: str
