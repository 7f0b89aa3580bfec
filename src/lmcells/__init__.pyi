from lmcells.corpus.build import build_corpus as build_corpus
from lmcells.evaluation.evaluate import evaluate as evaluate
from lmcells.expansion.expander import Expander as Expander
from lmcells.expansion.expansion import Candidate as Candidate
from lmcells.expansion.expansion import Expansion as Expansion
from lmcells.expansion.inventory import SenseInventory as SenseInventory
from lmcells.pretrain import train as train

__version__: str
