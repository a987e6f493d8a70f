// CoreDNS with just the plugins that a VPC's Corefile, as kube-ovn's documentation has it, and a stand-in of kube-dns need;
// and a client that asks one question.
//
//	coredns -conf FILE          serves, as CoreDNS does
//	coredns ask SERVER NAME     prints the addresses that a server gives for a name
package main

import (
	"fmt"
	"net"
	"os"
	"time"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/hosts"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/loop"
	_ "github.com/coredns/coredns/plugin/metrics"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/reload"
	"github.com/miekg/dns"
)

func init() {
	// In CoreDNS' own order.
	dnsserver.Directives = []string{
		"reload", "health", "ready", "prometheus", "errors", "log", "cache", "loadbalance", "hosts", "kubernetes", "loop",
		"forward",
	}
}

func main() {
	if len(os.Args) == 4 && os.Args[1] == "ask" {
		if err := ask(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	coremain.Run()
}

func ask(server, name string) error {
	question := new(dns.Msg).SetQuestion(dns.Fqdn(name), dns.TypeA)
	client := dns.Client{Timeout: 2 * time.Second}
	answer, _, err := client.Exchange(question, net.JoinHostPort(server, "53"))
	if err != nil {
		return err
	}
	if answer.Rcode != dns.RcodeSuccess {
		return fmt.Errorf("%s", dns.RcodeToString[answer.Rcode])
	}
	for _, record := range answer.Answer {
		if address, ok := record.(*dns.A); ok {
			fmt.Println(address.A)
		}
	}
	return nil
}
