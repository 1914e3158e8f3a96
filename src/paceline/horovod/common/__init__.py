"""The modules that scripts import from `horovod.common`: public names at the places where Horovod has them."""
