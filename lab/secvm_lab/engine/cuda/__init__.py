"""Training on a GPU, with the bytes of the CPU: the extra ``cuda`` of the laboratory.

device = Gpu()
people = DevicePeople.of_rows(device, rows)
engine = CudaEngine(people, labels, experiments, train=masks)   # any number of models at once
training = CudaTraining(experiment, device=device)              # one model, whatever its rule
training.advance(population)

Most callers ask by name: ``sweep(..., device="cuda")``, ``SecVMClassifier(device="cuda")``,
``secvm reproduce offline --device cuda``.
"""
