"""In the place of Ray, for one process that is one rank of each group of actors: what it does itself is done here, at once.

Ray starts a process for each actor. Here every rank runs the whole program: the controller, and of each group of
``WORLD_SIZE`` actors that of its own rank. What another rank would answer is what this one answered, which has the same
shape.
"""

import asyncio
import inspect
import io
import os
import pickle

import torch


class ObjectRef:
    """What was answered, or which actor's answer stands in for one that is not here."""

    def __init__(self, value):
        self.value = value

    def __await__(self):
        yield from ()
        return self.value


class _Elsewhere(ObjectRef):
    """A call of an actor of another rank."""

    def __init__(self, answers, method):
        self._answers, self._method = answers, method

    @property
    def value(self):
        return self._answers[self._method]

    def __await__(self):
        while self._method not in self._answers:
            yield  # other tasks of the driver, one of which calls the actor that is here
        return self.value


def _address():
    return os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT")


def _done(value):
    return asyncio.run(value) if inspect.isawaitable(value) else value


class _Method:
    def __init__(self, handle, name):
        self._handle, self._name = handle, name

    def options(self, **placement):
        return self

    def remote(self, *args, **named):
        return self._handle._call(self._name, args, named)


class ActorHandle:
    def __init__(self, actor, answers):
        self._actor, self._answers = actor, answers

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Method(self, name)

    def _call(self, name, args, named):
        if self._actor is None:
            return _Elsewhere(self._answers, name)
        args, named = _received((args, named))
        self._answers[name] = _done(getattr(self._actor, name)(*args, **named))
        return ObjectRef(self._answers[name])


def _received(sent):
    """What arrives: copies, but for tensors, which an actor gets as views of the object store, and values for references."""
    as_they_are, file = [], io.BytesIO()
    pickler = pickle.Pickler(file)

    def kept(value):
        if not isinstance(value, (torch.Tensor, ObjectRef, ActorHandle, ActorClass)):
            return None
        as_they_are.append(value.value if isinstance(value, ObjectRef) else value)
        return len(as_they_are) - 1

    pickler.persistent_id = kept
    pickler.dump(sent)
    file.seek(0)
    unpickler = pickle.Unpickler(file)
    unpickler.persistent_load = as_they_are.__getitem__
    return unpickler.load()


def _is_of_a_group(kind):
    """Whether an actor is one rank of several; its class may leave the arguments to the one that it is made of."""
    constructors = (vars(each)["__init__"] for each in kind.__mro__[:-1] if "__init__" in vars(each))
    return any(list(inspect.signature(one).parameters)[1:3] == ["world_size", "rank"] for one in constructors)


class ActorClass:
    def __init__(self, kind):
        self._kind = kind
        self._answers = {"get_master_addr_port": _address()}

    def options(self, **placement):
        return self

    def remote(self, *args, **named):
        if _is_of_a_group(self._kind):
            if args[1] != int(os.environ["RANK"]):
                return ActorHandle(None, self._answers)
            args = (*args[:-2], os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"])
        actor = self._kind.__new__(self._kind)
        args, named = _received((args, named))
        _done(actor.__init__(*args, **named))
        return ActorHandle(actor, self._answers)


def remote(*kinds, **placement):
    def declared(kind):
        if inspect.isclass(kind):
            return ActorClass(kind)
        kind.remote = lambda *args, **named: ObjectRef(_done(kind(*args, **named)))
        return kind

    return declared(kinds[0]) if kinds else declared


def get(refs, timeout=None):
    return [ref.value for ref in refs] if isinstance(refs, list) else refs.value


def put(value):
    return ObjectRef(value)


def wait(refs, num_returns=1, timeout=None):
    return refs[:num_returns], refs[num_returns:]


def is_initialized():
    return True


def init(**settings):
    pass


def get_gpu_ids():
    return [os.environ.get("LOCAL_RANK", "0")]


def kill(actor):
    pass


from ray import _private, util  # noqa: E402, F401  callers reach these by attribute
from ray._private import services, worker  # noqa: E402, F401
