"""Colors of the page that shows all stages."""

from slangrad.cli.dump_html import colored


def one(text, language):
    (line,) = colored([text], language)
    return line


def test_languages():
    assert (
        one("\tfloat y = 2.0; // a < b", "slang") == "    <em>float</em> y = <u>2.0</u>; <i>// a &lt; b</i>"
    )
    assert one("  %9 = mul %a.2, %x", "ir") == "  %9 = <b>mul</b> %a.2, %x"
    assert one('  %1 = load %0 : ptr<f32, global>', "ir") == (
        "  %1 = <b>load</b> %0 : <em>ptr</em>&lt;<em>f32</em>, global&gt;"
    )  # fmt: skip
    assert one("  %v1 = fmul <8 x float> %v0, %v0", "llvm") == (
        "  %v1 = <b>fmul</b> &lt;<u>8</u> x <em>float</em>&gt; %v0, %v0"
    )
    assert one("\tvmulps\t%ymm1, %ymm0", "asm") == ("<b>    vmulps</b>       <em>%ymm1</em>, <em>%ymm0</em>")
    assert one("        Binary * : float", "ast") == "<b>        Binary</b> * : <i>float</i>"


def test_nothing_is_lost():
    for language in ("slang", "ast", "ir", "llvm", "asm"):
        assert one('a & "b" < c', language).replace("<s>", "").replace("</s>", "") == 'a &amp; "b" &lt; c'
