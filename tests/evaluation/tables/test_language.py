"""Languages are told from ordinary sentences, and what does not tell one stays with its script."""

import pytest

from tasks.evaluation.tables.language import is_told, language

SENTENCES = {
    "en": "What is the best way to learn a new language?",
    "de": "Wie viele Einwohner hat die Stadt, und was ist dort zu sehen?",
    "fr": "Quelle est la capitale de la France et combien de gens y vivent ?",
    "es": "¿Cómo se prepara el arroz para una paella con marisco?",
    "pt": "Você pode explicar como não queimar o arroz em uma panela?",
    "it": "Che cosa succede quando la temperatura dell'acqua è sotto lo zero, e come si misura?",
    "nl": "Hoe kan ik het beste een fiets repareren als de ketting er af is?",
    "sv": "Vad är det bästa sättet att lära sig ett språk som inte är lätt?",
    "pl": "Jak to zrobić, żeby nie było za późno, i co z tego wynika dla nas?",
    "tr": "Bu soru için en iyi cevap ne olabilir ve nasıl yazılır?",
    "vi": "Làm thế nào để học một ngôn ngữ mới và không quên những từ cũ?",
    "id": "Bagaimana cara belajar bahasa yang baru dan apa yang tidak boleh dilupakan?",
    "ru": "Как быстро выучить новый язык и что для этого нужно?",
    "uk": "Як швидко вивчити нову мову і що для цього потрібно, чи є поради?",
    "ar": "ما هو الفرق بين هذا الكتاب والكتاب الذي على الطاولة؟",
    "fa": "این کتاب برای چه کسی است و چرا آن را با خود می برید؟",
    "ja": "日本語のテキストを書いてください。",
    "zh": "你好，世界上最高的山是哪一座？",
    "ko": "한국어를 배우는 가장 좋은 방법은 무엇입니까?",
    "el": "Ποια είναι η πρωτεύουσα της Ελλάδας;",
}


@pytest.mark.parametrize("code", SENTENCES)
def test_a_sentence_tells_its_language(code):
    assert language(SENTENCES[code]) == code
    assert is_told(code)


@pytest.mark.parametrize(
    ("text", "script"),
    [("x = foo(bar)", "latin"), ("Pizza Margherita", "latin"), ("2 + 2 = 4", "none"), ("", "none")],
)
def test_what_tells_no_language_keeps_the_name_of_its_script(text, script):
    assert language(text) == script
    assert not is_told(script)
