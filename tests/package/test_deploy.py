"""The files of deploy/ by themselves: units, image, manifests, and that their times fit the server's."""

import os
import re
import shutil
import unittest

from fixture import DEPLOY, SOURCE, FolderCase, main, read, replaced, run, write

try:
    import yaml
except ImportError:  # not in the standard library; the checks of the text remain
    yaml = None

MANIFESTS = os.path.join(DEPLOY, "kubernetes")


def number(pattern, text):
    found = re.search(pattern, text)
    assert found, "no %r" % pattern
    return float(found.group(1))


def http_deadline_ms(name):
    return number(r"\.%s_ms = (\d+)" % name, read(SOURCE, "apps/server/http/http_config.c"))


class Units(FolderCase):
    def setUp(self):
        super().setUp()
        self.text = read(DEPLOY, "systemd", "ruvllm.service.in")
        self.path = write(os.path.join(self.folder, "ruvllm.service"), replaced(self.text, [("@RUVLLM_PROGRAM@", "/bin/true")]))
        shutil.copy(os.path.join(DEPLOY, "systemd", "ruvllm.socket"), self.folder)

    def test_service_is_confined(self):
        for setting in ("ProtectSystem=strict", "NoNewPrivileges=yes", "PrivateTmp=yes", "PrivateDevices=yes", "User=ruvllm",
                        "MemoryDenyWriteExecute=yes", "CapabilityBoundingSet=\n", "SystemCallFilter=@system-service",
                        "SystemCallFilter=~@privileged @resources", "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6",
                        "Type=notify", "StateDirectory=ruvllm", "LimitCORE=0"):
            self.assertIn("\n" + setting, self.text)

    def test_the_background_may_be_idle(self):
        denied = self.text.index("\nSystemCallFilter=~@privileged @resources")
        self.assertIn("\nSystemCallFilter=sched_setscheduler sched_setattr", self.text[denied:])  # the later line has the last word

    @unittest.skipUnless(shutil.which("systemd-analyze"), "no systemd here")
    def test_systemd_rates_its_exposure_at_most_2_and_knows_every_setting(self):
        done = run("systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", self.path)
        self.assertNotIn("Unknown", done.stdout + done.stderr)
        self.assertLessEqual(number(r"exposure level for ruvllm.service: ([0-9.]+)", done.stdout), 2.0)

    def test_answers_may_finish_before_the_manager_kills(self):
        drain = number(r"--drain (\d+)", self.text)
        self.assertGreater(number(r"TimeoutStopSec=(\d+)", self.text), drain)
        self.assertGreater(number(r"RestartSec=(\d+)", self.text), 0)


class Proxies(unittest.TestCase):
    def test_proxies_give_up_idle_connections_before_the_server_does(self):
        idle = http_deadline_ms("idle") / 1000
        self.assertLess(number(r"keepalive_timeout (\d+)s; # the servers", read(DEPLOY, "nginx.conf")), idle)
        self.assertLess(number(r"timeout http-keep-alive (\d+)s", read(DEPLOY, "haproxy.cfg")), idle)
        self.assertLess(number(r"idle_timeout: (\d+)s # the servers", read(DEPLOY, "envoy.yaml")), idle)

    def test_proxies_wait_longer_than_streams_are_silent(self):
        ping = http_deadline_ms("ping") / 1000
        for pattern, name in ((r"proxy_read_timeout (\d+)s", "nginx.conf"), (r"timeout server (\d+)s", "haproxy.cfg"),
                              (r"timeout client (\d+)s", "haproxy.cfg"), (r"stream_idle_timeout: (\d+)s", "envoy.yaml")):
            self.assertGreater(number(pattern, read(DEPLOY, name)), 2 * ping)

    def test_all_hide_metrics_and_keep_sessions_together(self):
        for name in ("nginx.conf", "haproxy.cfg", "envoy.yaml"):
            text = read(DEPLOY, name).lower()
            self.assertIn("/metrics", text)
            self.assertRegex(text, "x[-_]session")

    @unittest.skipUnless(yaml, "no YAML reader here")
    def test_envoy_file_is_yaml_with_a_listener_and_a_cluster(self):
        resources = yaml.safe_load(read(DEPLOY, "envoy.yaml"))["static_resources"]
        self.assertEqual([c["lb_policy"] for c in resources["clusters"]], ["RING_HASH"])
        self.assertEqual(resources["clusters"][0]["health_checks"][0]["http_health_check"]["path"], "/readyz")
        self.assertEqual(len(resources["listeners"]), 1)


class Manifests(unittest.TestCase):
    def setUp(self):
        self.texts = {name: read(MANIFESTS, name) for name in os.listdir(MANIFESTS)}
        self.deployment = self.texts["deployment.yaml"]

    def test_every_file_is_listed_or_named_as_optional(self):
        listed = self.texts["kustomization.yaml"]
        for name in self.texts:
            self.assertTrue(name in listed or name == "kustomization.yaml", name)
        for name in re.findall(r"[a-z]+\.yaml", listed):
            self.assertIn(name, self.texts)

    def test_times_of_leaving_add_up(self):
        grace = number(r"terminationGracePeriodSeconds: (\d+)", self.deployment)
        drain, wait = number(r"--drain (\d+)", self.deployment), number(r'command: \[sleep, "(\d+)"\]', self.deployment)
        self.assertGreater(grace, drain + wait)
        readiness = re.search(r"readinessProbe:.*?periodSeconds: (\d+)\s+failureThreshold: (\d+)", self.deployment, re.S)
        self.assertGreater(wait, int(readiness[1]) * int(readiness[2]))

    def test_image_and_manifests_are_of_this_version(self):
        version = re.search(r"project\(ruvllm VERSION ([0-9.]+)", read(SOURCE, "CMakeLists.txt"))[1]
        self.assertIn("{name: ruvllm, newTag: %s}" % version, self.texts["kustomization.yaml"])

    def test_scaling_and_alerts_use_metrics_that_exist(self):
        there = set(re.findall(r'"((?:ruvllm_|vllm:)[a-z_0-9]+)"', read(SOURCE, "apps/server/metrics.c")))
        named = set(re.findall(r"\b(ruvllm_[a-z_0-9]+|vllm:[a-z_0-9]+)\b", self.texts["autoscaler.yaml"]))
        page = read(SOURCE, "docs/deploy.md")
        named |= set(re.findall(r"`((?:ruvllm_|vllm:)[a-z_0-9]+)`", page))
        self.assertGreater(len(named), 10)
        histograms = {n + end for n in there if n.endswith("_seconds") for end in ("_bucket", "_sum", "_count")}
        self.assertEqual(named - there - histograms, set())

    def test_user_of_image_and_pod_is_the_same(self):
        user = re.search(r"USER (\d+):", read(SOURCE, "Dockerfile"))[1]
        self.assertIn("runAsUser: %s\n" % user, self.deployment)

    @unittest.skipUnless(yaml, "no YAML reader here")
    def test_pods_are_confined_and_probed(self):
        pod = yaml.safe_load(self.deployment)["spec"]["template"]["spec"]
        self.assertTrue(pod["securityContext"]["runAsNonRoot"])
        self.assertFalse(pod["automountServiceAccountToken"])
        for container in pod["initContainers"] + pod["containers"]:
            context = container["securityContext"]
            self.assertEqual((context["allowPrivilegeEscalation"], context["readOnlyRootFilesystem"]), (False, True))
            self.assertEqual(context["capabilities"], {"drop": ["ALL"]})
            self.assertIn("memory", container["resources"]["limits"])
            for mount in container["volumeMounts"]:
                self.assertIn(mount["name"], [volume["name"] for volume in pod["volumes"]])
        server = pod["containers"][0]
        self.assertEqual(server["readinessProbe"]["httpGet"]["path"], "/readyz")
        self.assertEqual(server["livenessProbe"]["httpGet"]["path"], "/healthz")

    @unittest.skipUnless(yaml, "no YAML reader here")
    def test_selectors_meet_the_labels(self):
        documents = {name: yaml.safe_load(text) for name, text in self.texts.items()}
        labels = documents["deployment.yaml"]["spec"]["template"]["metadata"]["labels"]
        for selector in (documents["deployment.yaml"]["spec"]["selector"]["matchLabels"],
                         documents["service.yaml"]["spec"]["selector"],
                         documents["disruption.yaml"]["spec"]["selector"]["matchLabels"],
                         documents["network.yaml"]["spec"]["podSelector"]["matchLabels"]):
            self.assertEqual(selector, labels)
        self.assertEqual(documents["monitor.yaml"]["spec"]["selector"]["matchLabels"],
                         documents["service.yaml"]["metadata"]["labels"])


class Image(unittest.TestCase):
    def test_image_is_pinned_small_and_not_root(self):
        text = read(SOURCE, "Dockerfile")
        stages = re.findall(r"^FROM (\S+)", text, re.M)
        self.assertEqual(len(stages), 2)
        for image in stages:
            self.assertRegex(image, r"^[a-z]+:[0-9]")  # a plain name with a version, never the latest
        for install in re.findall(r"apt-get install [^\n]+", text):
            self.assertIn("--no-install-recommends", install)
        self.assertIn("rm -rf /var/lib/apt/lists/*", text)
        last = text[text.rindex("\nFROM "):]
        self.assertLess(last.index("USER "), last.index("ENTRYPOINT"))
        for instruction in ("HEALTHCHECK", "STOPSIGNAL SIGTERM", 'ENTRYPOINT ["ruvllm"]', "EXPOSE 8080"):
            self.assertIn(instruction, last)


if __name__ == "__main__":
    main()
