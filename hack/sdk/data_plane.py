"""A data plane that is not ours: gRPC's own library, stubs from the files that the released Java SDK carries.

    usage: data_plane.py SERVER[,SERVER...]

It behaves as the SDKs do. It remembers a version for each kind of each app, drops what is lower (ACK with 4010), and
ignores a refusal. When its stream ends it asks for the same again, of the next server that answers.

Each line on its input is a JSON object with one order:
    {"subscribe": TARGET} {"unsubscribe": TARGET}   a SubscribeRequestTarget
    {"send": REQUEST}                               a SubscribeRequest as it is
    {"answer": REQUEST}                             what it answers from now on to what it applied; null: nothing
    {"leave": true}                                 ends its stream, to go to the next server
Each line on its output is one with what happened:
    {"connected": SERVER}  {"lost": CODE, "why": TEXT}  {"response": RESPONSE, "is": "applied"|"outdated"|"refused"}
"""

import asyncio
import contextlib
import itertools
import json
import sys

import grpc
from google.protobuf.json_format import MessageToDict, ParseDict

# What a response may hold has to be known to be printed.
from envoy.config.route.v3 import route_pb2  # noqa: F401
from fault_tolerance.v1 import fault_tolerance_pb2  # noqa: F401
from router.v1 import route_fallback_pb2  # noqa: F401
from transport.v1.protocol_pb2 import Status, SubscribeOpType, SubscribeRequest, SubscribeRequestTarget
from transport.v1.protocol_pb2_grpc import OpenSergoUniversalTransportServiceStub

CONNECTS_WITHIN = 1
RECONNECTS = [("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 200)]
# What reading and writing raise once the stream has ended.
LOST = (grpc.aio.AioRpcError, asyncio.InvalidStateError)
SUCCESS, OUTDATED = 1, 4010
ACK = {"responseAck": "ACK", "status": {"code": SUCCESS}}


def say(**what):
    print(json.dumps(what), flush=True)


class DataPlane:
    def __init__(self, servers):
        self.channels = {server: grpc.aio.insecure_channel(server, RECONNECTS) for server in servers}
        self.call = None
        # A stream takes one message at a time.
        self.writing = asyncio.Lock()
        self.targets = []
        self.versions = {}
        self.answer = ACK

    async def run(self):
        for server in itertools.cycle(self.channels):
            try:
                await asyncio.wait_for(self.channels[server].channel_ready(), CONNECTS_WITHIN)
            except asyncio.TimeoutError:
                continue
            call = OpenSergoUniversalTransportServiceStub(self.channels[server]).SubscribeConfig()
            with contextlib.suppress(*LOST):
                await self.converse(server, call)
            self.call = None
            say(lost=(await call.code()).name, why=await call.details())

    async def converse(self, server, call):
        for target in self.targets:
            await self.write_to(call, SubscribeRequest(target=target))
        self.call = call
        say(connected=server)
        async for response in call:
            verdict = self.take(response)
            say(response=MessageToDict(response, preserving_proto_field_name=True), **{"is": verdict})
            answer = self.answer_to(response, verdict)
            if answer is not None:
                await self.write_to(call, answer)

    def take(self, response):
        if response.ack and 4000 <= response.status.code < 4100:
            return "refused"
        key = response.namespace, response.app, response.kind
        version = response.dataWithVersion.version
        if version < self.versions.get(key, 0):
            return "outdated"
        self.versions[key] = version
        return "applied"

    def answer_to(self, response, verdict):
        if verdict == "outdated":
            status = Status(code=OUTDATED, message="outdated version")
            return SubscribeRequest(response_ack="ACK", status=status, request_id=response.response_id)
        if verdict == "refused" or self.answer is None:
            return None
        answer = ParseDict(self.answer, SubscribeRequest())
        # As the Java SDK has it: its NACK does not say to what.
        if answer.response_ack == "ACK":
            answer.request_id = response.response_id
        return answer

    async def obey(self, order):
        match order:
            case {"subscribe": target}:
                target = ParseDict(target, SubscribeRequestTarget())
                self.targets.append(target)
                await self.write(SubscribeRequest(target=target))
            case {"unsubscribe": target}:
                target = ParseDict(target, SubscribeRequestTarget())
                self.targets = [other for other in self.targets if other != target]
                await self.write(SubscribeRequest(target=target, op_type=SubscribeOpType.UNSUBSCRIBE))
            case {"send": request}:
                await self.write(ParseDict(request, SubscribeRequest()))
            case {"answer": answer}:
                self.answer = answer
            case {"leave": True}:
                if self.call is not None:
                    await self.call.done_writing()
            case _:
                raise ValueError(f"no such order: {order}")

    async def write(self, request):
        # What it is subscribed to is asked for with every new stream.
        if self.call is not None:
            with contextlib.suppress(*LOST):
                await self.write_to(self.call, request)

    async def write_to(self, call, request):
        async with self.writing:
            await call.write(request)

    async def listen(self):
        lines = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
        while line := await lines.readline():
            await self.obey(json.loads(line))


async def main():
    plane = DataPlane(sys.argv[1].split(","))
    both = [asyncio.create_task(plane.run()), asyncio.create_task(plane.listen())]
    ended, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    for task in ended:
        task.result()


asyncio.run(main())
