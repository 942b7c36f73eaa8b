"""Names, groups and splits of pairs: functions of their content alone."""

from hypothesis import given
from hypothesis import strategies as st

from tasks.conversion import Pair
from tasks.conversion.preference.identity import identify, prompt_group
from tasks.conversion.preference.splits import split_of

TEXT = st.text(min_size=1, max_size=20)


def talk(*turns):
    roles = ("user", "assistant")
    return [{"role": roles[i % 2], "content": text} for i, text in enumerate(turns)]


def name(pair):
    return identify(pair, 0, 0.5).pair_id


def test_pair_id_changes_with_every_part_of_the_content():
    pair = Pair("Hi", "a", "b")
    others = [
        Pair("Hi ", "a", "b"),
        Pair(None, "a", "b"),
        Pair("Hi", "b", "a"),
        Pair("Hi", "a", "b", tools="[1]"),
        Pair("Hi", "a", "b", chat_template_kwargs="[1]"),
        Pair(talk("Hi"), "a", "b"),
    ]
    assert len({name(p) for p in (pair, *others)}) == len(others) + 1
    assert name(Pair("Hi", "a", "b", margin=2.0, weight=3.0, notes=("x",))) == name(pair)


def test_the_order_of_a_messages_keys_changes_nothing():
    def turned(messages):
        return [dict(reversed(list(message.items()))) for message in messages]

    prompt, a, b = talk("Hi"), talk("", "a")[1:], talk("", "b")[1:]
    one = identify(Pair(prompt, a, b), 0, 0.5)
    assert identify(Pair(turned(prompt), turned(a), turned(b)), 0, 0.5) == one


def test_pair_id_and_group_are_stable_across_versions():
    known = identify(Pair("Is it red?", " Yes", " No"), 0, 0.5)
    assert known.pair_id == "a0ed2b3bcb5c338aea2ff198dcf4df80"
    assert known.group == "5efa98e194d3dffda18dc56c8a7fbbe1"


def test_group_ignores_case_width_and_whitespace_and_format():
    group = prompt_group(Pair("What is  IT?", "a", "b"))
    assert group == prompt_group(Pair(" what is\nit？", "c", "d"))
    assert group == prompt_group(Pair(talk("What is it?"), talk("", "c")[1:], talk("", "d")[1:]))
    assert group != prompt_group(Pair("What is that?", "a", "b"))
    assert group != prompt_group(Pair(talk("What is it?", "x", "y"), [], []))


def split_of_pair(prompt, seed, split_by):
    return identify(Pair(prompt, "a", "b"), seed, 0.5, split_by).split


@given(st.integers(), st.sampled_from(["So?", "ＳＯ？", ""]), st.booleans())
def test_prompts_that_begin_alike_are_held_out_together_where_the_opening_decides(
    seed, later, system
):
    before = [{"role": "system", "content": "Be kind."}] if system else []
    asked = before + talk("What is it?")
    deeper = before + talk("What is it?", "It.", later, "Yes.", "And?")
    alone = split_of_pair(talk("What is it?"), seed, "prompt")
    assert alone == split_of_pair(talk("What is it?"), seed, "opening")  # nothing changes
    assert alone == split_of_pair(asked, seed, "opening")
    assert alone == split_of_pair(deeper, seed, "opening")
    shouted = [message | {"content": message["content"].upper()} for message in deeper]
    assert alone == split_of_pair(shouted, seed, "opening")


def test_a_longer_prompt_has_a_split_and_always_a_group_of_its_own():
    asked, deeper = talk("What is it?"), talk("What is it?", "It.", "So?")
    one, other = (identify(Pair(p, "a", "b"), 0, 0.5, "opening") for p in (asked, deeper))
    assert one.group != other.group
    splits = {
        (split_of_pair(asked, n, "prompt"), split_of_pair(deeper, n, "prompt")) for n in range(40)
    }
    assert len(splits) == 4
    for prompt in (None, " ", "What is it?", talk("", "It.")[1:]):
        assert split_of_pair(prompt, 7, "opening") == split_of_pair(prompt, 7, "prompt")


def test_pairs_without_a_prompt_are_grouped_by_their_answers_either_way_round():
    group = prompt_group(Pair(None, "a", "b"))
    assert group == prompt_group(Pair(None, "b", "a")) == prompt_group(Pair(" ", "A", "b"))
    assert group != prompt_group(Pair(None, "a", "c"))


@given(TEXT, TEXT, TEXT)
def test_key_of_a_swapped_pair_differs_in_one_bit(prompt, a, b):
    one, other = (identify(Pair(prompt, *sides), 0, 0.5).key for sides in ((a, b), (b, a)))
    same = a == b or one == other
    assert same or (one[:-1] == other[:-1] and one[-1] ^ other[-1] == 1)


@given(TEXT, st.integers(), st.floats(0, 1), st.floats(0, 1))
def test_split_only_grows_with_the_fraction(prompt, seed, a, b):
    group = prompt_group(Pair(prompt, "a", "b"))
    small, large = sorted((a, b))
    if split_of(group, seed, small) == "eval":
        assert split_of(group, seed, large) == "eval"
    assert split_of(group, seed, 0.0) == "train"
    assert split_of(group, seed, 1.0) == "eval"


def test_share_of_groups_held_out_is_the_fraction():
    groups = [prompt_group(Pair(str(i), "a", "b")) for i in range(20_000)]
    share = sum(split_of(g, 3, 0.05) == "eval" for g in groups) / len(groups)
    assert abs(share - 0.05) < 0.008  # five standard deviations
