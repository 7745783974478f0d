"""Training on a GPU, with the bytes of the CPU: the extra ``cuda`` of the laboratory.

device = Gpu()
people = DevicePeople.of_rows(device, rows)
engine = CudaEngine(people, labels, experiments, train=masks)     # any number of models at once
training = CudaTraining(experiment, population, device=device)    # one model, whatever its rule

Everything else asks for it by name: ``SecVMClassifier(device="cuda")``, ``secvm reproduce offline --device cuda``.
"""
