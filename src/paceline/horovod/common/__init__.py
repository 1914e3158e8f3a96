"""The modules that scripts import from `horovod.common`: public names, at the places that Horovod has them."""
