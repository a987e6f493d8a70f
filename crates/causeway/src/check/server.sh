# In the pod that is spoken to. One line of input: the port (0: any) and how many bytes. Takes one connection, reads that
# much and answers with how much it was and its digest; says first which port it is.
read -r port bytes
if command -v perl >/dev/null; then
  exec perl -MIO::Socket::INET -MDigest::SHA -e '
    $| = 1;
    my ($port, $bytes) = @ARGV;
    my $server = IO::Socket::INET->new(LocalPort => $port, Listen => 1, ReuseAddr => 1) or do { print "failed $!\n"; exit };
    print "listening ", $server->sockport, "\n";
    my $peer = $server->accept or exit;
    my ($sum, $got, $part) = (Digest::SHA->new(1), 0, "");
    while ($got < $bytes and my $n = sysread $peer, $part, 65536) { $sum->add($part); $got += $n }
    syswrite $peer, $got . " " . $sum->hexdigest . "\n";
  ' "$port" "$bytes"
elif command -v python3 >/dev/null; then
  exec python3 -uc '
import hashlib, socket, sys
port, size = int(sys.argv[1]), int(sys.argv[2])
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
try:
    server.bind(("", port))
except OSError as error:
    sys.exit(print("failed", error))
server.listen(1)
print("listening", server.getsockname()[1])
peer, _ = server.accept()
digest, got = hashlib.sha1(), 0
while got < size:
    part = peer.recv(65536)
    if not part:
        break
    digest.update(part)
    got += len(part)
peer.sendall(("%d %s\n" % (got, digest.hexdigest())).encode())
' "$port" "$bytes"
else
  echo 'missing perl or python3'
fi
