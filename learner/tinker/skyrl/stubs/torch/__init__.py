"""What SkyRL's JAX backend imports of torch: names in annotations."""


class Tensor:
    pass


class dtype:
    pass
