"""English function words that carry no meaning of their own.

They are dropped unless written in capitals: OR, IS, AS and NO are short forms. Only "a" and "i" are dropped in
either case, since a sentence capitalises them.
"""

STOP_WORDS = frozenset(
    """
    a about above after again against all am an and any are as at be because been before being below between
    both but by can did do does doing down during each few for from further had has have having he her here
    hers herself him himself his how i if in into is it its itself just me more most my myself no nor not now
    of off on once only or other our ours ourselves out over own same she should so some such than that the
    their theirs them themselves then there these they this those through to too under until up very was we
    were what when where which while who whom why will with you your yours yourself yourselves
    eg ie
    aren't can't couldn't didn't doesn't don't hadn't hasn't haven't he'd he'll i'd i'll i'm i've isn't it'd
    it'll let mustn't needn't shan't she'd she'll shouldn't that'll they'd they'll they're they've wasn't we'd
    we'll we're we've weren't won't wouldn't you'd you'll you're you've
    """.split()
)
