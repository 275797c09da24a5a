"""Holds a listening socket as a service manager does, and restarts the server on it while clients come without a pause.

    socket_manager.py PROGRAM MODEL RESTARTS

A client connects, asks and reads to the end. A connection is lost when it is refused, reset or closed without an answer;
it may wait. Prints name=value lines.
"""
import os
import signal
import socket
import sys
import threading
import time

program, model, restarts = sys.argv[1], sys.argv[2], int(sys.argv[3])
listener = socket.create_server(("127.0.0.1", 0), backlog=512)
notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
notify.bind("\0ruvllm-test-%d" % os.getpid())
notify.settimeout(120)


def start():
    """The server with the socket as descriptor 3, when it says that it is ready."""
    child = os.fork()
    if child == 0:
        if listener.fileno() == 3:
            os.set_inheritable(3, True)
        else:
            os.dup2(listener.fileno(), 3, inheritable=True)
        os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()), NOTIFY_SOCKET="@ruvllm-test-%d" % os.getppid())
        out = os.open(os.devnull, os.O_WRONLY)
        os.dup2(out, 1)
        os.execv(program, [program, "serve", "text=" + model, "--store", "none", "--threads", "1", "--log-level", "error"])
    while notify.recv(100) != b"READY=1":
        pass
    return child


body = b'{"model":"text","prompt":"Once","max_tokens":8,"ignore_eos":true,"stream":true}'
request = (b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n"
           b"content-length: %d\r\n\r\n" % len(body)) + body
lost, answered, refused, is_over = [], [0], [0], threading.Event()


def come_and_go():
    while not is_over.is_set():
        text = b""
        try:
            with socket.create_connection(listener.getsockname(), timeout=120) as wire:
                wire.sendall(request)
                while piece := wire.recv(65536):
                    text += piece
        except OSError as error:
            lost.append(str(error))
            continue
        if b"data: [DONE]" in text:
            answered[0] += 1
        elif text.startswith(b"HTTP/1.1 503"):
            refused[0] += 1
        else:
            lost.append(text[-200:].decode("latin1"))
        time.sleep(0.005)


server = start()
clients = [threading.Thread(target=come_and_go) for _ in range(4)]
for client in clients:
    client.start()
for _ in range(restarts):
    time.sleep(0.3)
    os.kill(server, signal.SIGTERM)
    status = os.waitpid(server, 0)[1]
    if status != 0:
        lost.append("the server ended with %d" % status)
    server = start()
is_over.set()
for client in clients:
    client.join()
os.kill(server, signal.SIGTERM)
os.waitpid(server, 0)
for one in lost[:10]:
    print("lost: %s" % one)
print("restart_count=%d" % restarts)
print("restart_answered=%d" % answered[0])
print("restart_refused=%d" % refused[0])
print("restart_lost=%d" % len(lost))
