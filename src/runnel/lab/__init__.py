"""The laboratory: runs scenarios in simulated time on the real broker code, and compares them with the papers.

A scenario and its run:

scenario            a scenario as a TOML file: start here
scenarios/          the scenario files that come with Runnel
shapes              trees of brokers by name, among them those of the papers
inventory           the resources of brokers by name: the papers' tables
scenario_workload   the scenario's workload, with a broker for every client; the same as a topology for real processes
planned_network     brokers, links and places of clients as a plan has them, in place of a shape
world               the brokers in a simulated world
clients, roaming    the clients in it; publishers that migrate
waits, memory       how long publications wait for a broker's output; how much memory brokers use
croc_client         CROC's client in such a world
run                 a whole run: start, warm-up, window, drain, trace

Measuring a trace:

metrics             loads, delays, hops, overhead
expectation         whether everything was delivered that should have been

Experiments:

experiment          what an experiment is; experiments/ has one folder for each
criteria            what the papers say, and by which words it is judged
claims, figures     what a paper says beside what was measured; charts
networks            drawings of networks
reproduce, report   running experiments; the files that they write
done_jobs           results of single runs, so that what was interrupted goes on
results, history    whether results were edited, and whether their criteria came before them
"""
