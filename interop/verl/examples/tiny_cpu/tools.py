from verl.tools.function_tool import function_tool


@function_tool
def page(n: int) -> str:
    """Shows a page.

    Args:
        n: number of the page.
    """
    return f"page {n}: " + "lorem ipsum " * (2 + n % 5)
