import io

from rich import console

from quintain.terminal import screens, training_display


class Canvas(screens.Screen):
    """Keeps what was drawn last, as text."""

    def draw(self, build):
        text = io.StringIO()
        console.Console(file=text, width=120).print(build(24))
        self.drawn = text.getvalue()


def test_the_bar_shows_how_far_training_is():
    canvas = Canvas()
    display = training_display.TrainingDisplay(canvas)

    display.show_training(5, 10, "loss 1.5  ETA 3 s")

    assert all(part in canvas.drawn for part in ("Training", "5/10", "loss 1.5  ETA 3 s"))


def test_a_phase_takes_the_place_of_the_steps():
    canvas = Canvas()
    display = training_display.TrainingDisplay(canvas)
    display.show_training(5, 10, "loss 1.5")

    display.show_phase("Evaluating step 5")
    display.show_detail("2/4")

    assert "Evaluating step 5" in canvas.drawn
    assert "2/4" in canvas.drawn
    assert "loss" not in canvas.drawn


def test_lines_tell_of_phases_and_of_the_first_and_the_last_loop(capsys):
    display = training_display.TrainingDisplay(screens.PlainScreen())

    display.show_phase("Compiling")
    display.show_detail("1/2")
    for step in (2, 4, 6, 8):
        display.show_training(step, 8, "loss 1")

    assert capsys.readouterr().err.splitlines() == [
        "Compiling ...",
        "step 2/8  loss 1",
        "step 8/8  loss 1",
    ]
