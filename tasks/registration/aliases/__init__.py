"""Which version serves: what it is judged by, and who moved which alias when.

judgement              what a version is found to be: gate (its own figures) and comparison
                       (beside the champion: champion_scores, on the pairs that are frozen)
decision               what follows for the version that a run registers, and its alias
promotion, rollback    moves by hand, each through by_hand
locked_aliases         the only way to move an alias; lock lets one process at a time
history                the moves that were made
"""
